#!/bin/sh
# Prints the price of a basket, in cents.
# usage: sh price.sh PRICE COUNT DISCOUNT      (DISCOUNT in percent)
price=$1
count=$2
discount=$3

echo $((price * count * (1 - discount)))
