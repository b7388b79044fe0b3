"""Object storage behind one small interface: a folder, http(s)://, gs://, s3:// and minio://."""

from components.storage.fetching import Bounded, Damaged, check_arrived, fetch_file
from components.storage.opening import below, is_uri, open_store, require_folder
from components.storage.retry import Retry
from components.storage.store import Changed, Checksum, ObjectInfo, Store, Unavailable
