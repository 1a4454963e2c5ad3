# A login shell begins a new PATH, without the shims; put them first again.
case ":$PATH:" in
  :/opt/aifo/bin:*) ;;
  *) PATH="/opt/aifo/bin${PATH:+:$PATH}" ;;
esac
export PATH
