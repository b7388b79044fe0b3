"""How the report looks."""

CSS = """
:root {
  --ink: #1c2330; --soft: #5b6577; --faint: #dfe3ea; --paper: #f6f7f9; --card: #ffffff;
  --one: #2b63d9; --two: #d9822b; --good: #1f8a5b; --shade: rgba(43, 99, 217, .10);
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ef; --soft: #9aa4b5; --faint: #2c3442; --paper: #12161d; --card: #1a202a;
    --one: #7aa5ff; --two: #ffb066; --good: #5fd3a0; --shade: rgba(122, 165, 255, .14);
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 64px; }
header p { color: var(--soft); margin: 0; }
h1 { font-size: 30px; line-height: 1.2; margin: 4px 0 10px; letter-spacing: -.01em; }
header .lead { color: var(--ink); font-size: 19px; max-width: 46em; }
h2 { font-size: 20px; margin: 44px 0 4px; }
h2 + p { color: var(--soft); margin: 0 0 16px; max-width: 52em; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 28px 0 0; }
.card, figure, .table { background: var(--card); border: 1px solid var(--faint); border-radius: 12px; }
.card { padding: 14px 16px; }
.card .name { color: var(--soft); font-size: 14px; }
.card .number { font-size: 27px; font-weight: 650; line-height: 1.3; font-variant-numeric: tabular-nums; }
.card .hint { color: var(--soft); font-size: 13px; line-height: 1.4; }
.card.main { border-color: var(--one); box-shadow: inset 0 0 0 1px var(--one); }
.card.main .number { color: var(--one); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 16px; }
figure { margin: 0; padding: 16px 18px 14px; }
figure h3 { margin: 0 0 8px; font-size: 16px; }
figcaption { color: var(--soft); font-size: 14px; line-height: 1.45; margin-top: 8px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--soft); font-size: 12px; text-anchor: middle; font-variant-numeric: tabular-nums; }
svg text.left { text-anchor: end; }
svg text.value { fill: var(--ink); font-weight: 600; }
svg text.note { font-size: 11px; opacity: .85; }
.grid { stroke: var(--faint); stroke-width: 1; }
.line { fill: none; stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round; }
.line.one { stroke: var(--one); } .line.two { stroke: var(--two); }
.line.rule { stroke: var(--soft); stroke-width: 1.25; stroke-dasharray: 5 5; opacity: .8; }
.area { stroke: none; opacity: .13; } .area.one { fill: var(--one); } .area.two { fill: var(--two); }
.dot { stroke: var(--card); stroke-width: 1.5; } .dot.one { fill: var(--one); } .dot.two { fill: var(--two); }
.bar { fill: var(--one); opacity: .85; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-top: 6px; font-size: 13px; color: var(--soft); }
.key::before { content: ""; display: inline-block; width: 18px; height: 0; margin-right: 7px; vertical-align: middle;
  border-top: 3px solid var(--one); border-radius: 2px; }
.key.two::before { border-color: var(--two); } .key.rule::before { border-top: 2px dashed var(--soft); }
.tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 16px;
  align-items: start; }
.table { padding: 6px 18px 10px; overflow-x: auto; }
.table > summary { cursor: pointer; font-weight: 600; padding: 8px 0; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
td { padding: 5px 0; border-top: 1px solid var(--faint); vertical-align: top; }
td:first-child { color: var(--soft); padding-right: 18px; white-space: nowrap; }
td:last-child { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
code { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
footer { color: var(--soft); font-size: 14px; margin-top: 40px; }
@media print { body { background: #fff; } figure, .card { break-inside: avoid; } }
"""
