"""Links: what they carried in calibration against their nominal rate."""
