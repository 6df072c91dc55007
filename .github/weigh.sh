# Compares a pull request with its base on one machine, and writes the verdict into the job's
# summary. action.yml sets the variables. If the run cannot tell (exit code 3), the job passes.
set -eu

if [ -z "$BASE" ]; then
	echo "::error::weigh: base is empty: set the input base, outside of pull requests"
	exit 2
fi
work=$(mktemp -d)
git rev-parse -q --verify "$BASE^{commit}" >/dev/null || git fetch -q --depth 1 origin "$BASE"
git worktree add -q --detach "$work/base" "$BASE"
trap 'git worktree remove --force "$work/base"; rm -rf "$work"' EXIT

(cd "$work/base" && sh -c "$BUILD")
sh -c "$BUILD"

# The builds run in their own folders, which may hold templates and the like. FLAGS are several words.
code=0
# shellcheck disable=SC2086
"$TARE" weigh --a "env -C '$work/base' $RUN" --b "env -C '$PWD' $RUN" --path "$URL_PATH" \
	--fail-if "$FAIL_IF" --out "$work/results" $FLAGS >"$work/verdict" || code=$?
cat "$work/verdict"
{ echo '```'; cat "$work/verdict"; echo '```'; } >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
case $code in
1) echo "::error::weigh: the head breaks $FAIL_IF" ;;
3) echo "::notice::weigh: this runner cannot tell whether the head keeps $FAIL_IF"; code=0 ;;
esac
exit "$code"
