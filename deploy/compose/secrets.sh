#!/bin/sh
# Makes the files of secrets that docker-compose.yml mounts, and keeps those that are there:
# passwords at random, and empty files, which set nothing, for what not everybody has.
set -eu
folder=$(dirname "$0")/secrets
# Only you may enter the folder. In a container each file is mounted alone, and its user is another one.
mkdir -p -m 0700 "$folder"
for name in ragtide_redis_password ragtide_serve_tokens; do
    [ -e "$folder/$name" ] || od -A n -t x1 -N 24 /dev/urandom | tr -d ' \n' >"$folder/$name"
done
for name in ragtide_judge_api_key ragtide_notify_destinations ragtide_user_id_salt; do
    [ -e "$folder/$name" ] || : >"$folder/$name"
done
chmod 0644 "$folder"/*
echo "the secrets are in $folder"
