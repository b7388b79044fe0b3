"""Object storage behind one small interface: a folder, http(s)://, gs:// and s3://."""

from components.storage.checksum import Checksum
from components.storage.opening import open_store
from components.storage.store import Changed, ObjectInfo, Store, Unavailable

__all__ = ["Changed", "Checksum", "ObjectInfo", "Store", "Unavailable", "open_store"]
