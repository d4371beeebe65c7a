"""From the turns of a memcell to drafts of memories: by rules, or out of a model's answer. Pure."""
