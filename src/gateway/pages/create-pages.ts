import { cors, type CorsOrigins } from '@conversation-operator/http/server/cors';
import { type UiOptions, uiFilesOf } from './ui.ts';
import { webFilesOf } from './app.ts';

/** Headers that pages of other origins may send. */
const requestHeaders = [
  'Authorization',
  'Content-Type',
  'X-Org-Id',
  'X-Session-API-Key',
  'Idempotency-Key',
  'Last-Event-ID',
  'X-OpenHands-Client',
  'X-OpenHands-Client-Version',
  'X-OpenHands-Telemetry-Distinct-Id',
];

/**
 * The origins of the service's own pages, which call sandboxes on other origins: that of the public
 * URL and, for 127.0.0.1, also that of `localhost`.
 */
function ownOrigins(publicUrl: string): readonly string[] {
  const { origin, hostname } = new URL(publicUrl);
  return hostname === '127.0.0.1' ? [origin, origin.replace(hostname, 'localhost')] : [origin];
}

interface PagesSettings {
  readonly publicUrl?: string;
  readonly uiDirectory?: string;
  readonly webDirectory?: string;
  readonly corsOrigins?: CorsOrigins;
}

interface PagesNeeds {
  readonly publicUrl: () => string;
  /** Content-Security-Policy sources that permit the origins of sandboxes. */
  readonly sandboxSources: UiOptions['sandboxSources'];
  readonly isSignedIn: UiOptions['isSignedIn'];
}

/** Creates the pages, and the CORS checks for pages that call the service. */
export function createPages(
  { publicUrl: configured, uiDirectory, webDirectory, corsOrigins = [] }: PagesSettings,
  { publicUrl, sandboxSources, isSignedIn }: PagesNeeds,
) {
  const hasPath = configured !== undefined && new URL(configured).pathname !== '/';
  const ui: UiOptions = {
    // The web UI loads its files from the root of the origin, which rules out a URL with a path.
    files: hasPath ? undefined : uiFilesOf(uiDirectory),
    publicUrl,
    sandboxSources,
    isSignedIn,
  };
  return {
    ui,
    webFiles: webFilesOf(webDirectory),
    allowOrigins: cors(corsOrigins, requestHeaders),
    allowOriginsOfSandboxes: cors(
      () => [...corsOrigins, ...(ui.files === undefined ? [] : ownOrigins(publicUrl()))],
      requestHeaders,
    ),
  };
}
