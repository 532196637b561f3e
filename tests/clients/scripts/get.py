# python3 get.py URL: the body to stdout, by urllib.
import shutil
import sys
import urllib.request

shutil.copyfileobj(urllib.request.urlopen(sys.argv[1]), sys.stdout.buffer)
