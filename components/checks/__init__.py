"""Data checks: what raw data look like, compared with the data of an earlier model; see docs/data-checks.md."""

# The file of an artifact that holds the profile; preprocess writes it, and it goes with the records and the model.
PROFILE = "profile.json"
