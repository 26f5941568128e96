#!/bin/sh
# A CNI plugin for tests: records how it was called beside its own path, and answers as files there say.
here=$(dirname "$0")
call=$(basename "$0")-$CNI_COMMAND
input=$(cat)
echo "$call id=$CNI_CONTAINERID netns=$CNI_NETNS ifname=$CNI_IFNAME args=$CNI_ARGS path=$CNI_PATH $input" >>"$here/calls"
if [ -e "$here/$call.hang" ]; then
    sleep 1000 &
    echo $! >>"$here/children"
    setsid sleep 1000 &
    echo $! >>"$here/children"
    wait
fi
if [ -e "$here/$call.flood" ]; then
    exec cat /dev/zero
fi
if [ -e "$here/$call.answer" ]; then
    cat "$here/$call.answer"
fi
if [ -e "$here/$call.fail" ]; then
    cat "$here/$call.fail"
    exit 1
fi
