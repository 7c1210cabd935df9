/** What pip has come to, as far as its lines tell. */
export interface PipState {
  /** Names of the packages that it has found. */
  readonly collected: ReadonlySet<string>;
  readonly phase: 'collecting' | 'building' | 'installing';
  /** What is told to people, or undefined while there is nothing new. */
  readonly detail: string;
}

export const pipBegins: PipState = { collected: new Set(), phase: 'collecting', detail: '' };

/** One more line of pip's output. */
export function afterLine(state: PipState, line: string): PipState {
  const [, name] = /^Collecting ([A-Za-z0-9._-]+)/.exec(line) ?? [];
  if (name !== undefined) {
    const collected = new Set(state.collected).add(name.toLowerCase());
    return { collected, phase: 'collecting', detail: `${collected.size} fetched, ${name}` };
  }
  const [, built] = /^\s*Building wheel for ([A-Za-z0-9._-]+)/.exec(line) ?? [];
  if (built !== undefined) return { ...state, phase: 'building', detail: `${state.collected.size} fetched, building ${built}` };
  const [, list] = /^Installing collected packages: (.*)$/.exec(line) ?? [];
  if (list !== undefined) return { ...state, phase: 'installing', detail: `unpacking ${list.split(', ').length}` };
  return state;
}

const causes: readonly (readonly [pattern: RegExp, cause: string])[] = [
  [/No space left on device|Errno 28|Disk quota exceeded/i, 'the disk is full'],
  [
    /Temporary failure in name resolution|Name or service not known|NameResolutionError|getaddrinfo failed/i,
    'the package index can not be reached: its name is not known (is there a network?)',
  ],
  [
    /NewConnectionError|ConnectTimeoutError|Network is unreachable|Connection refused|ReadTimeoutError|ProxyError|Connection reset|RemoteDisconnected|Max retries exceeded/i,
    'the package index can not be reached (is there a network, a proxy?)',
  ],
  [/CERTIFICATE_VERIFY_FAILED|SSLError/i, "the package index's certificate is not trusted (PIP_CERT names a file with yours)"],
  [/Permission denied|Errno 13/i, 'a file may not be written'],
  [
    /No matching distribution found for (\S+)|Could not find a version that satisfies the requirement (\S+)/i,
    'the package index lacks a package',
  ],
];

/** Why pip has failed, in words for people, from all that it has printed. */
export function pipFailure(output: string): string {
  const cause = causes.find(([pattern]) => pattern.test(output))?.[1];
  const said = output
    .split('\n')
    .filter((line) => /^ERROR: /.test(line))
    .at(-1)
    ?.slice('ERROR: '.length, 400);
  return [cause, said].filter((text) => text !== undefined).join('; pip: ') || 'pip has failed';
}
