"""The recorder: archives what is on the streams as files, each entry exactly once; docs/recording.md."""
