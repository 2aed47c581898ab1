"""What is released: the wheel, and the versions that pip is given."""
