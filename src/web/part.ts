import { ApiError } from './api.ts';

declare global {
  /** A global of the build. `parts` has the exports of each loaded file in `src/web/parts`. */
  var conversationPage: { readonly parts: Readonly<Record<string, unknown>> };
}

interface PartFile {
  readonly src: string;
  readonly integrity: string;
}

/** The Trusted Types API, which blocks injected scripts. Some type libraries do not declare it. */
interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL: (text: string) => string },
  ): { createScriptURL: (text: string) => string };
}

let scripts: Readonly<Record<string, PartFile>> = {};
let trusted = (src: string): string => src;

/** Sets, once, the scripts that the page may load. Trusted Types make browsers refuse others. */
export function allowParts(known: Readonly<Record<string, PartFile>>): void {
  scripts = known;
  const sources = new Set(Object.values(known).map(({ src }) => src));
  const { trustedTypes } = globalThis as { readonly trustedTypes?: TrustedTypes };
  const policy = trustedTypes?.createPolicy('parts', {
    createScriptURL: (text) => {
      if (!sources.has(text)) throw new TypeError('This is no part of the page.');
      return text;
    },
  });
  if (policy !== undefined) trusted = (src) => policy.createScriptURL(src);
}

/** The URL of a script for a worker, with the type that Trusted Types require. */
export const addressOf = (name: string): string => trusted(scripts[name]?.src ?? '');

const loading = new Map<string, Promise<void>>();

const load = (name: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const { src, integrity } = scripts[name] ?? { src: '', integrity: '' };
    const script = Object.assign(document.createElement('script'), { integrity });
    script.src = trusted(src);
    script.onload = () => resolve();
    script.onerror = () => {
      script.remove();
      loading.delete(name);
      reject(
        new ApiError({
          detail:
            'A part of this page can not be loaded. Reload the page: its version may be gone.',
        }),
      );
    };
    document.head.append(script);
  });

export const loadedPart = (name: string): unknown => conversationPage.parts[name];

/** Exports of a file in `src/web/parts`, loaded once. Rejects with ApiError; a new call retries. */
export async function partOf(name: string): Promise<unknown> {
  if (loadedPart(name) === undefined) {
    const promise = loading.get(name) ?? load(name);
    loading.set(name, promise);
    await promise;
  }
  const part = loadedPart(name);
  if (part === undefined) throw new ApiError({ detail: 'A part of this page has failed.' });
  return part;
}
