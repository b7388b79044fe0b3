"""The download step: raw interaction logs from storage, or synthetic ones."""
