import { render } from 'preact';
import { App } from './components/app.tsx';
import { listenToKeys } from './keyboard.ts';
import { allowParts } from './part.ts';
import { showNumber } from './number-shown.ts';
import { PageContext, PageState } from './page-state.ts';
import { serviceTime } from './service-time.ts';

const root = document.getElementById('app');
if (root === null) throw new Error('The document has no element "app"');
allowParts(JSON.parse(root.dataset['parts'] ?? '{}') as Parameters<typeof allowParts>[0]);
const page = new PageState({ hasUi: 'hasUi' in root.dataset });
render(
  <PageContext.Provider value={page}>
    <App path={location.pathname} />
  </PageContext.Provider>,
  root,
);
showNumber(page);
listenToKeys(page);
page.stream.open();
setInterval(() => {
  if (document.visibilityState === 'visible') page.now.value = serviceTime();
}, 1000);
