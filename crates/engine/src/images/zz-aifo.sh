# In the place of an agent: keeps the shims first in the PATH of login shells.
#
# Debian's /etc/profile sets PATH from scratch. Agents take a snapshot of a login shell's environment
# (`bash -lc`) and run every command with it: the shims would be bypassed, silently. Read by any
# POSIX shell, any number of times, and last, hence the name. Without a session all stays as it is:
# a shim there could only say that it has no proxy.
if [ -d /run/aifo ]; then
  case "$PATH:" in
    /opt/aifo/bin:*) ;;
    *)
      aifo_path=/opt/aifo/bin
      # Tools that are judged and run here have a directory each, if the image has them.
      for aifo_tool in /opt/aifo/bin/in-place/*; do
        command -v "${aifo_tool##*/}" > /dev/null 2>&1 && aifo_path="$aifo_path:$aifo_tool"
      done
      PATH="$aifo_path:$PATH" && export PATH
      unset aifo_path aifo_tool
      ;;
  esac
fi
