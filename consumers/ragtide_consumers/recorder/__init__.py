"""The recorder: archives every entry of the streams in files, exactly once; docs/recording.md."""
