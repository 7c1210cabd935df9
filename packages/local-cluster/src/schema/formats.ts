import { isIPv4, isIPv6 } from 'node:net';

const dateTime = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/;

/** Formats that are checked; any other format accepts any text. */
const formats: Readonly<Record<string, (text: string) => boolean>> = {
  'date-time': (text) => dateTime.test(text) && !Number.isNaN(Date.parse(text)),
  ipv4: isIPv4,
  ipv6: isIPv6,
  byte: (text) => /^[A-Za-z0-9+/\s]*={0,2}$/.test(text),
};

export const hasFormat = (text: string, format: string): boolean => formats[format]?.(text) ?? true;
