"""`apportion doctor`: is this installation sound, and is a store well?"""
