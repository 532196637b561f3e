# Prints what the package tools of an image say of their own configuration.
# Run by /bin/sh, without network; what is not there is left out.
cd /
echo
echo aisb-section debian
# shellcheck disable=SC2016 # apt's own variable
if command -v apt-get >/dev/null; then apt-get indextargets --format '$(REPO_URI)' 2>/dev/null; fi
echo
echo aisb-section npm
if command -v npm >/dev/null; then npm config ls --json 2>/dev/null; fi
echo
echo aisb-section go
if command -v go >/dev/null; then GOTOOLCHAIN=local go env -json GOPROXY GOSUMDB 2>/dev/null; fi
echo
echo aisb-section pip
if command -v python3 >/dev/null; then
	# pip has no command that names its default index.
	python3 -c 'from pip._internal.models.index import PyPI as own
print("own", own.simple_url)
print("own", "https://" + own.file_storage_domain)' 2>/dev/null
	python3 -m pip config list 2>/dev/null
fi
exit 0
