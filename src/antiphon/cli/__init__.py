"""The command line: one file a verb, thin. It parses words, calls the layers below and prints."""
