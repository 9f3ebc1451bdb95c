"""The recorder: it writes every entry of the streams to files, exactly once (docs/offline/recording.md)."""
