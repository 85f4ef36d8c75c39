"""Large files over HTTP, resumably and politely."""
