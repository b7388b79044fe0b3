"""Texts as models read them: WordPiece tokens, the vocabulary behind them, and answers within texts."""
