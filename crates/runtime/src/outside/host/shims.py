"""What do files import that were written for another system, where that system is not installed?"""
