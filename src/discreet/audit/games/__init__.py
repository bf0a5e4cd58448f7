"""Alice and Bob: what an attacker can learn of a membership or an attribute."""
