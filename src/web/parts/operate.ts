export { OperatePage } from '../components/operate/operate-page.tsx';
