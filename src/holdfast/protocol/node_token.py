"""The tokens of nodes. Each is bound to its node's name: it follows from the name and the orchestrator's key in `node.token`."""

import hmac


def node_token(key: str, name: str) -> str:
    """Return the token of a node. It begins with the node's name.

    >>> node_token("key", "n1") == node_token("key", "n1"), node_token("key", "n2").startswith("n2~")
    (True, True)
    """
    return f"{name}~{hmac.new(key.encode(), name.encode(), 'sha256').hexdigest()}"


def named_node(token: str) -> str:
    """Return the name in a node's token, or an empty text if it has none.

    >>> named_node("n1~5f2a"), named_node("secret")
    ('n1', '')
    """
    name, separator, _ = token.rpartition("~")
    return name if separator else ""


def own_token(secret: str, name: str) -> str:
    """Return a node's token from the content of its token file: the token itself, or the key, on the orchestrator's machine."""
    return secret if named_node(secret) else node_token(secret, name)
