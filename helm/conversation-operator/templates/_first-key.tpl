{{/* Exclusive or of two numbers of 32 bits, digit by digit of 16: templates have no such function. Takes a list of both. */}}
{{- define "co.xor" -}}
{{- $left := index . 0 | int64 -}}
{{- $right := index . 1 | int64 -}}
{{- $result := 0 -}}
{{- $weight := 1 -}}
{{- range until 32 -}}
{{- if ne (mod $left 2) (mod $right 2) -}}{{- $result = add $result $weight -}}{{- end -}}
{{- $left = div $left 2 -}}
{{- $right = div $right 2 -}}
{{- $weight = mul $weight 2 -}}
{{- end -}}
{{- $result -}}
{{- end -}}

{{/* The CRC-32 of a text, by the reversed polynomial, four bits at a time. */}}
{{- define "co.crc32" -}}
{{- $table := list 0 498536548 997073096 651767980 1994146192 1802195444 1303535960 1342533948 3988292384 4027552580 3604390888 3412177804 2607071920 2262029012 2685067896 3183342108 -}}
{{- $crc := 4294967295 | int64 -}}
{{- $text := . -}}
{{- range $position := until (len $text) -}}
{{- $crc = include "co.xor" (list $crc (index $text $position)) | int64 -}}
{{- range until 2 -}}
{{- $crc = include "co.xor" (list (div $crc 16) (index $table (mod $crc 16 | int))) | int64 -}}
{{- end -}}
{{- end -}}
{{- sub 4294967295 $crc -}}
{{- end -}}

{{/* An API key of the form that the gateway takes: random digits, then a checksum of six digits of base 62. */}}
{{- define "co.newApiKey" -}}
{{- $key := printf "co_%s" (randAlphaNum 32) -}}
{{- $alphabet := "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" -}}
{{- $rest := include "co.crc32" $key | int64 -}}
{{- $checksum := "" -}}
{{- range until 6 -}}
{{- $digit := mod $rest 62 | int -}}
{{- $checksum = printf "%s%s" (substr $digit (add $digit 1 | int) $alphabet) $checksum -}}
{{- $rest = div $rest 62 -}}
{{- end -}}
{{- $key -}}{{- $checksum -}}
{{- end -}}
