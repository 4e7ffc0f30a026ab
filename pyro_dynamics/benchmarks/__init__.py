"""What planning, updating and training cost, beside the peer's."""
