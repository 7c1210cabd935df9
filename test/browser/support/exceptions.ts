export interface Fault {
  readonly what: string;
  readonly url: string;
}

interface Exception {
  readonly what: RegExp;
  /** Matches the whole URL. */
  readonly url: RegExp;
  readonly why: string;
}

const loopback = String.raw`^(http|ws)s?://(127\.[\d.]+:\d+|people\.test)`;
const at = (path: string): RegExp => new RegExp(`${loopback}${path}`);

/** Everything that may go wrong in the web UI's page, and why it may. */
const exceptions: readonly Exception[] = [
  {
    what: /^(GET|POST) net::ERR_NAME_NOT_RESOLVED$/,
    url: /^https:\/\/(fonts\.googleapis\.com|z\.openhands\.dev|us\.i\.posthog\.com|cdn\.simpleicons\.org|registry\.npmjs\.org)\//,
    why: 'fonts, icons, telemetry and news of its makers: the test lets nothing out of the machine',
  },
  {
    what: /^GET 404$/,
    url: at(String.raw`/api/automation/(sdk-version|health)$`),
    why: 'there are no automations here',
  },
  {
    what: /^GET 404$/,
    url: at(String.raw`/api/v1/settings/(agent|conversation)-schema$`),
    why: 'models and agents are configured with the sandboxes, not by their users',
  },
  {
    what: /^GET 409$/,
    url: at(String.raw`/api/v1/conversation/\w+/events/search\?`),
    why: 'a start that has failed has left no events to read, and the page asks for them',
  },
  {
    what: /^GET 409$/,
    url: at(String.raw`/api/v1/app-conversations/\w+/live$`),
    why: 'a sandbox that is being paused has nothing live, and the page asks until it knows that',
  },
  {
    what: /^GET 401$/,
    url: at('/api/v1/quota$'),
    why: 'a person may sign out while the page asks; a page without a session shows the sign-in',
  },
  {
    what: /^GET net::ERR_ABORTED$/,
    url: at('/'),
    why: 'the page itself has given the request up, because it went elsewhere',
  },
];

/** Chromium drops its requests when the machine's interfaces change; the page repeats them. */
const networkChanged = /net::ERR_NETWORK_CHANGED/;
const reloading =
  /^console: .*(Error loading route module|Failed to fetch dynamically imported module)/;

export function unexpected(faults: readonly Fault[]): readonly Fault[] {
  const changed = faults.some(({ what }) => networkChanged.test(what));
  return faults.filter(
    ({ what, url }) =>
      !(changed && (networkChanged.test(what) || reloading.test(what))) &&
      !exceptions.some((exception) => exception.what.test(what) && exception.url.test(url)),
  );
}

/** Texts that the web UI announces while nothing is wrong. */
const harmless: ReadonlySet<string> = new Set([
  // The web UI also expects an agent on this machine: at first, and while a sandbox is not RUNNING.
  ...['No backend is configured.', 'Checking your backend connection…'],
  ...['Creating conversation…', 'Sending...', 'Loading...', 'Loading…', 'Thinking'],
  ...['Conversation title updated successfully', 'Conversation deleted successfully'],
]);

/** Announced texts that may report a fault to a person, each once. */
export const complaints = (announced: readonly string[]): readonly string[] =>
  [...new Set(announced)].filter((text) => !harmless.has(text));
