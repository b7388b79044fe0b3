"""Notices: the outcome of a run for people and other programs, by webhook and mail."""

from components.notices.notice import Notice, tell
