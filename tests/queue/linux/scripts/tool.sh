#!/bin/sh
echo tool
exit 0
