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
 * The origins of the service's own pages, which use sandboxes on origins of their own: the public
 * one, and its other name on this machine.
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
  /** Sources of a content security policy, for the origins of sandboxes. */
  readonly sandboxSources: UiOptions['sandboxSources'];
  readonly isSignedIn: UiOptions['isSignedIn'];
}

/** Creates the files of the pages, and the check of the origins of pages that call the service. */
export function createPages(
  { publicUrl: configured, uiDirectory, webDirectory, corsOrigins = [] }: PagesSettings,
  { publicUrl, sandboxSources, isSignedIn }: PagesNeeds,
) {
  const hasPath = configured !== undefined && new URL(configured).pathname !== '/';
  const ui: UiOptions = {
    // The documents of the web UI refer to their files from the root of the origin.
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
