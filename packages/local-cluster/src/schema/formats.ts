import { isIP, isIPv4, isIPv6 } from 'node:net';

const dateTime = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/;
const duration = /^-?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d|w))+$/;

const isUrl = (text: string): boolean => {
  try {
    return new URL(text).protocol !== '';
  } catch {
    return false;
  }
};

/** Formats that Kubernetes checks; an unknown format accepts any text. */
const formats: Readonly<Record<string, (text: string) => boolean>> = {
  'date-time': (text) => dateTime.test(text) && !Number.isNaN(Date.parse(text)),
  date: (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)),
  duration: (text) => duration.test(text) || text === '0',
  uuid: (text) => /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i.test(text),
  ipv4: isIPv4,
  ipv6: isIPv6,
  ip: (text) => isIP(text) !== 0,
  uri: isUrl,
  byte: (text) => /^[A-Za-z0-9+/\s]*={0,2}$/.test(text),
  email: (text) => /^[^\s@]+@[^\s@]+$/.test(text),
  hostname: (text) => /^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$/.test(text) && text.length <= 255,
  cidr: (text) => {
    const [address = '', bits] = text.split('/');
    return isIP(address) !== 0 && bits !== undefined && /^\d{1,3}$/.test(bits);
  },
};

export const hasFormat = (text: string, format: string): boolean => formats[format]?.(text) ?? true;
