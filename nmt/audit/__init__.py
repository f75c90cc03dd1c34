"""`nmt audit`: what is wrong with the pairs that a configuration names, set by set; nothing is
changed."""
