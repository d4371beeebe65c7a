"""Embedding models: a local one on onnxruntime, or any server that speaks OpenAI's protocol."""
