"""Logs in the forms that the source documents print (LOG-6). `exchange.crabtalk` reads the form of RFC 0064."""
