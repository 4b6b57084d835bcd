# Reads from the second serial line the number of a job and how many seconds it may take, one job a line, and runs each.
# It runs until the machine is switched off, or systemd ends it. The kernel's command line has the name of that line.
exec 3<> "/dev/$(sed -n 's/.*jobs=\([^ ]*\).*/\1/p' /proc/cmdline)"
stty raw -echo <&3
echo READY >&3
while sleep 1; do echo ALIVE >&3; done &
while read -r number seconds <&3; do
    timeout -k 3 "$seconds" sh "/host/job$number" < /dev/null > "/host/job$number.out" 2>&1 3>&-
    echo "DONE $number $?" >&3
done
