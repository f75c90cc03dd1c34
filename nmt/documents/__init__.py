"""Documents with markup: their text is translated, everything else stays byte for byte as it
was."""
