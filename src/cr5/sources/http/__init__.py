"""Downloads of large files over HTTP: resumable, over few connections, with a contact in the user agent."""
