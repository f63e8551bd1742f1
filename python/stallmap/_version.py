"""Version of stallmap: one for this package, both programs and the recorder's library."""

VERSION = "0.1.0"
