"""What the methods of Dataset do, by topic; skate.data.dataset has the methods themselves."""
