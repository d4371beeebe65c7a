"""What people move to or leave, and never live in: tools, products, firms, teams, beliefs."""

import re

_NAMES = """
react vue angular svelte jquery redux node django flask rails laravel spring tailwind next nuxt vite webpack bun deno python
java javascript typescript rust go golang kotlin swift scala ruby perl php haskell elixir erlang clojure zig julia matlab
pandas polars pytorch tensorflow emacs vim neovim cursor excel word outlook office windows linux ubuntu debian fedora arch
nix gentoo mint wayland gnome mac macos android iphone pixel samsung docker podman kubernetes terraform ansible jenkins git
github gitlab jira trello asana linear scrum agile kanban sql mysql postgres postgresql sqlite redis kafka mongo mongodb
oracle sap salesforce aws azure gcp heroku vercel netlify cloudflare google gmail chrome firefox safari brave edge apple
microsoft amazon meta facebook instagram whatsapp telegram signal twitter x mastodon bluesky tiktok reddit linkedin youtube
netflix spotify slack teams zoom discord notion obsidian evernote logseq dropbox nextcloud photoshop figma sketch blender
wordpress shopify openai chatgpt claude gemini llama mistral ollama copilot ibm intel nvidia amd tesla uber siemens bosch
bmw marketing sales engineering management product finance support research legal hr design operations plan phase chapter
section level step stage page part option team christianity islam judaism buddhism hinduism catholicism monday tuesday
wednesday thursday friday saturday sunday
"""
_NO_PLACES = frozenset(_NAMES.split())
_SHORT_NAMES = frozenset(["US", "USA", "UK", "UAE", "NYC", "LA", "DC", "SF", "NZ", "HK", "KL", "PNG", "DRC"])
_capital_within = re.compile(r"(?!(?:Mc|Mac|De|La|Le|Du|Di|Van|El|San)[A-Z][a-z]+$)\w*[a-z][A-Z]").match
_is_versioned = re.compile(r"\d|\.(?:js|io|ai|py)$").search


def may_be_home(name: str) -> bool:
    """Not where a name is written as only tools are (GitHub, AWS, Next.js), or is one of theirs."""
    words = name.removeprefix("the ").split(",")[0].split()
    if not words or words[0].casefold().rstrip(".") in _NO_PLACES:
        return False
    return not any(_is_tool(word) for word in words)


def _is_tool(word: str) -> bool:
    is_short = len(word) > 1 and word.isalpha() and word.isupper() and word not in _SHORT_NAMES
    return is_short or bool(_capital_within(word)) or bool(_is_versioned(word))
