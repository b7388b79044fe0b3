"""Puts the model into the MLflow registry and decides whether it becomes the champion."""
