export { BareSandboxes } from '../components/bare-sandboxes.tsx';
