"""The release: the wheel, and the versions that pip installs."""
