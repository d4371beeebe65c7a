"""Model servers behind the Backend port: one HTTP client, and one small module for each engine."""
