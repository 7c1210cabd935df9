import { Header } from './header.tsx';
import { Home } from './home.tsx';
import { KeyHelp } from './key-help.tsx';

/** The content of the page by the path of its address. */
function Content({ path }: { readonly path: string }) {
  if (path === '/') return <Home />;
  return (
    <main class="missing">
      <h1>There is nothing at this address.</h1>
      <p>
        <a href="/">All conversations</a>
      </p>
    </main>
  );
}

export const App = ({ path }: { readonly path: string }) => (
  <>
    <Header />
    <Content path={path} />
    <KeyHelp />
  </>
);
