"""The data exchanged by steps: folders that appear atomically, with a manifest that proves their completeness."""

from components.artifacts.folder import Artifact, open_artifact
from components.artifacts.publish import Staging, adopt, publishing
from components.artifacts.reference import open_input
