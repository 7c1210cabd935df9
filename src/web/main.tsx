import { render, type ComponentChildren } from 'preact';
import { App } from './components/app.tsx';
import { listenToKeys } from './keyboard.ts';
import { allowParts, partOf } from './part.ts';
import type * as shared from './parts/shared.tsx';
import { messageOf } from './api.ts';
import { PageContext, PageState } from './page-state.ts';
import { serviceTime } from './times.ts';
import { effect } from '@preact/signals';

/** A tab icon with a number, which is `99+` above 99. */
const iconWith = (count: number): string =>
  `data:image/svg+xml,${encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#b3261e"/><text x="16" y="23" font-family="sans-serif" font-size="${count > 9 ? 18 : 22}" font-weight="700" text-anchor="middle" fill="#ffffff">${count > 99 ? '99+' : count}</text></svg>`,
  )}`;

/** Shows the number of conversations that need the user in the title, icon and app badge. */
function showNumber(page: PageState): void {
  const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  const plain = icon?.href ?? '';
  effect(() => {
    const count = page.store.index.rowsOf('needs-you').length;
    document.title = count === 0 ? page.title.value : `(${count}) ${page.title.value}`;
    if (icon !== null) icon.href = count === 0 ? plain : iconWith(count);
    // `setAppBadge` is absent in browsers that can not install apps. A rejection is ignored.
    if ('setAppBadge' in navigator) navigator.setAppBadge(count).catch(() => undefined);
  });
}

const root = document.getElementById('app');
if (root === null) throw new Error('The document has no element "app"');
allowParts(JSON.parse(root.dataset['parts'] ?? '{}') as Parameters<typeof allowParts>[0]);
/** Whether this is the page of a shared conversation, which reads nothing else. */
const isShared = 'shared' in root.dataset;
const page = new PageState({ hasUi: 'hasUi' in root.dataset });
const show = (content: ComponentChildren) =>
  render(<PageContext.Provider value={page}>{content}</PageContext.Provider>, root);
if (isShared) {
  const isSignedIn = 'signedIn' in root.dataset;
  partOf('shared').then(
    (part) => {
      const { SharedPage } = part as typeof shared;
      show(<SharedPage isSignedIn={isSignedIn} />);
    },
    (error: unknown) => show(<p class="problem">{messageOf(error)}</p>),
  );
} else {
  show(<App path={location.pathname} />);
  showNumber(page);
  listenToKeys(page);
  page.open();
}
setInterval(() => {
  if (document.visibilityState === 'visible') page.now.value = serviceTime();
}, 1000);
