// Search on pages that are opened from the disk: browsers start no worker there, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  const inside = `
    self.importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise((loaded, failed) => {
      const script = document.createElement("script")
      Object.assign(script, { src: url, onload: loaded, onerror: failed })
      document.body.appendChild(script)
    })), Promise.resolve())
    self.postMessage = message => parent.postMessage(message, "*")`

  // The theme's search asks for this name.
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = Object.assign(document.createElement("iframe"), { hidden: true })
      document.body.appendChild(this.frame)
      const content = this.frame.contentDocument
      content.open()
      content.write(`<!doctype html><body><script>${inside}</script><script src="${url}"></script></body>`)
      content.close()
      window.addEventListener("message", event => {
        if (event.source !== this.frame.contentWindow) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      })
    }

    postMessage(data) {
      const deliver = () => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
      if (this.frame.contentDocument.readyState === "complete") deliver()
      else this.frame.contentWindow.addEventListener("load", deliver)
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
