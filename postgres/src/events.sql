-- From now on changes are noted. A process that delivers events runs this when it starts.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'items'::regclass AND tgname = 'note_new') THEN
        CREATE TRIGGER note_new AFTER INSERT ON items REFERENCING NEW TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION note_changes();
        CREATE TRIGGER note_changed AFTER UPDATE ON items REFERENCING NEW TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION note_changes();
    END IF;
END $$
